"""The parts of static arguments and their texts: no code of the script, no array, no secret is read."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from jaxtop_agent.core import redaction
from jaxtop_agent.programs.compiles import statics
from tests.support import PYTHON, run, script


def step(x):
    return x


class Colour(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    one: int
    other: str


@dataclass
class Config:
    layers: int = 2
    rate: float = 0.1
    colour: Colour = Colour.RED

    def __repr__(self) -> str:
        raise AssertionError("code of the script")

    __hash__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("code of the script")


class Axis(enum.StrEnum):
    DATA = "s3cret"


class Database(NamedTuple):
    password: str = "s3cret"


DATABASE = Database()


@dataclass(frozen=True)
class Login:
    name: str = "me"
    ApiKey: str = "s3cret"
    db: Database = DATABASE
    max_tokens: int = 8


class Slotted:
    __slots__ = ("a",)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (3, {"n": "3"}),
        (None, {"n": "None"}),
        ("same", {"n": "'same'"}),
        ((1, (2, "x")), {"n[0]": "1", "n[1][0]": "2", "n[1][1]": "'x'"}),
        ((), {"n": "an empty tuple"}),
        (Pair(1, "b"), {"n.one": "1", "n.other": "'b'"}),
        ({"a": 1}, {"n['a']": "1"}),
        (Config(), {"n.layers": "2", "n.rate": "0.1", "n.colour": "Colour.RED"}),
        (Config, {"n": "Config"}),
        (step, {"n": "function step"}),
        (Slotted(), {"n": "a Slotted"}),
        ([10**10_000], {"n[0]": "a large int"}),
        (Axis.DATA, {"n": "Axis.DATA"}),
        # Strings that may hold secrets are told by their length, whatever they are called.
        ("bf16-mixed", {"n": "'bf16-mixed'"}),
        ("gs://bucket/run_1.2", {"n": "'gs://bucket/run_1.2'"}),
        ("postgres://me:s3cret@host/db", {"n": "a str of 28 characters"}),
        ("two words", {"n": "a str of 9 characters"}),
        ("a" * 41, {"n": "a str of 41 characters"}),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", {"n": "a str of 40 characters"}),
        ("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", {"n": "a str of 37 characters"}),
        ({"bos_token": "begin", "api key": "abc"}, {"n['bos_token']": "'begin'", "n[secret 1]": "a value"}),
        (b"s3cret", {"n": "6 bytes"}),
        (Login(), {"n.name": "'me'", "n.ApiKey": "a value", "n.db.password": "a value", "n.max_tokens": "8"}),
        (
            {"password": 1234, "x": {"access_token": 0.5, "apiKey": 7}, "has_token": True},
            {
                "n['password']": "a value",
                "n['x']['access_token']": "a value",
                "n['x']['apiKey']": "a value",
                "n['has_token']": "True",
            },
        ),
        (
            {"num_key_value_heads": 4, "eos_token_id": 2, "tokens": 8, "spin": 3},
            {"n['num_key_value_heads']": "4", "n['eos_token_id']": "2", "n['tokens']": "8", "n['spin']": "3"},
        ),
        ({"auth": ("s3cret",), "s3 cret@": 1}, {"n['auth'][0]": "a value", "n[entry 1]": "1"}),
    ],
)
def test_static_values_are_read_in_parts_without_the_scripts_code(value, parts):
    assert {each.name: each.text for each in statics.parts("n", value)} == parts


# Names of settings, credentials and parameters as they are in configurations.
OF_SECRETS = """
    api_key apiKey ApiKey APIKey API_KEY apikey APIKEY api-key x-api-key x_api_key api_key_2 apikey1
    openai_api_key OpenAIKey token hf_token hfToken HFToken HF_TOKEN hftoken access_token accessToken
    auth_token bearer_token refresh_token API_TOKEN wandb_token token2 page_token tokens api_tokens
    max_api_tokens github_token password passwd db_password dbPassword mypassword pwd db_pwd
    passphrase passcode pin user_pin secret secrets client_secret clientSecret mysecret secretKey
    AWS_SECRET_ACCESS_KEY aws_access_key_id AWS_SESSION_TOKEN credential credentials gcp_credentials
    creds db_creds service_account_credentials private_key privateKey public_key ssh_key sshkey
    encryption_key signing_key license_key wandb_key WANDB_API_KEY HF_TOKEN_TEXT input_api_key key
    keys data_key kms_key key_id keyfile keyring key_file auth oauth oauth2 authorization
    authentication basic_auth smtp_auth db_pass smtp_pass jwt session_cookie login.token n.db.password
    n['auth'][0] n['x']['apiKey'] secrets.name credentials['user']
"""
OF_OTHERS = """
    monkey donkey_kong keypoints num_keypoints keyword keyboard keyframe tokenizer tokenizer_name
    tokenizer_class tokenizer.name tokenization tokenized num_tokens max_tokens max_new_tokens
    tokens_per_batch token_type token_embed token_embedding pad_token bos_token eos_token unk_token
    mask_token sep_token cls_token bosToken decoder_start_token_id image_token image_token_index
    audio_token additional_special_tokens extra_special_tokens num_special_tokens next_token
    token_limit token_dropping token_mixer token_mask key_dim key_size key_axes query_key_norm
    use_query_key_norm key_proj key_init qk_norm num_key_value_heads num_kv_heads key_value_proj_dim
    keyDim numKeyValueHeads key_heads key_dtype kv_cache_dtype rng_key prng_key prngKey PRNGKey
    dropout_key params_key init_key random_key noise_key rngkey subkey subkeys default_prng_impl
    jax_default_prng_impl image_key label_key text_key input_key output_key target_key metric_key
    metric_keys sort_key batch_key feature_keys monitor_key cache_key primary_key author authors
    authored passes forward_pass bypass compass passthrough pass_through encoder embed_dim spin pinned
    optimizer activation hidden_act attn_implementation model_type rope_scaling padding_side
    mixed_precision accreditation incredible sacred scheduler config.tokenizer.padding_side
    model['monkey'] turkey hotkeys
"""
NUMBERS_OF_SECRETS = """
    api_key password n['password'] n['x']['access_token'] pin db_pin key token apiKey secret credentials.code
    auth_token passwords[3] api_key[0] hf_token password2 API_TOKEN AWS_SECRET_ACCESS_KEY private_key
"""
NUMBERS_OF_OTHERS = """
    max_tokens tokens num_key_value_heads eos_token_id key_dim key_size vocab_size tokenizer.vocab_size spin
    password_length auth_timeout bos_token keys num_token monkey image_token config.token.dim
"""


def test_names_of_secrets_are_distinguished_from_others_by_their_words():
    for is_hidden, secret, other in (
        (redaction.is_hidden_text, OF_SECRETS, OF_OTHERS),
        (redaction.is_hidden_number, NUMBERS_OF_SECRETS, NUMBERS_OF_OTHERS),
    ):
        assert [name for name in secret.split() if not is_hidden(name)] == []
        assert [name for name in other.split() if is_hidden(name)] == []


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("private_key=abc; x", "private_key=…; x"),
        ("run: --api-key=abc -x --2fa_password=abc", "run: --api-key=… -x --2fa_password=…"),
        ("KeyError: 'params', keys: 3, sort_key=4", "KeyError: 'params', keys: 3, sort_key=4"),
        (
            "tokenizer: gpt2, url=https://me:s3cret@x?hf_token=abc",
            "tokenizer: gpt2, url=https://…@x?hf_token=…",
        ),
        ("num_tokens=4096 of token: 7", "num_tokens=4096 of token: …"),
        ("{'Authorization': 'Basic Zm9v'}", "{'Authorization': …}"),
        ("sent Bearer abc.def", "sent Bearer …"),
    ],
)
def test_what_is_assigned_to_a_name_of_secrets_is_not_in_a_message(message, shown):
    assert redaction.without_secrets(message) == shown


def test_no_property_of_the_script_is_called():
    class Impostor:
        @property
        def __class__(self):
            raise SystemExit("code of the script")

    assert statics.parts("n", Impostor())[0].text == "a Impostor"


def test_large_static_values_are_bounded():
    endless: list[object] = []
    endless.append(endless)
    assert len(statics.parts("n", endless)) == 1
    assert len(statics.parts("n", list(range(10_000)))) == statics.MOST_PARTS
    assert all(len(each.text) <= statics.MAX_TEXT_CHARS for each in statics.parts("n", ["x" * 10_000]))


STATICS = """
    import dataclasses, json, os
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    import jax, jax.numpy as jnp, ml_dtypes, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from jaxtop_agent.hooks.compiles import Compiles
    from jaxtop_agent.programs.compiles import statics

    class Loud:
        def __repr__(self):
            raise SystemExit("code of the script")

    @jax.tree_util.register_static
    class Node(Loud):
        pass

    def step(x, config): return x + 1

    @dataclasses.dataclass(frozen=True, eq=False)
    class Config:
        table: object

    compiles = Compiles()
    compiles.install()
    config = Config(jnp.ones(4) * 2)
    jax.jit(step, static_argnums=1)(jnp.ones(4), config)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    loud = np.empty(1, object)
    loud[0] = Loud()
    values = dict(
        array=config, numpy=np.ones(2), objects=loud, partial=jax.tree_util.Partial(step, Loud()),
        tree=jax.tree_util.tree_structure([Node()]), jaxpr=jax.make_jaxpr(jnp.sin)(1.0),
        scalar=np.float32(0.5), small=ml_dtypes.bfloat16(2), dtype=np.dtype("int8"),
        bf16=jnp.dtype("bfloat16"), fields=np.dtype([("a", "int8")]),
        spec=P("data", None, ("data", "b"), P.UNCONSTRAINED),
        mesh=mesh, sharding=NamedSharding(mesh, P("data")), precision=jax.lax.Precision.HIGHEST,
        device=jax.devices()[1],
    )
    found = {name: statics.parts(name, value)[0].text for name, value in values.items()}
    # JAX 0.11 and newer have one class for what were two.
    print(json.dumps([config.table._npy_value is None, found, type(values["jaxpr"]).__name__]))
"""


@pytest.mark.jax
def test_no_array_is_read_and_no_code_of_the_script_runs_for_the_text_of_a_static_value(tmp_path):
    done = run(PYTHON, script(tmp_path, STATICS))
    assert done.returncode == 0, done.stderr
    has_no_copy, found, of_jaxpr = json.loads(done.stdout)
    assert has_no_copy
    assert found == {
        "array": "a ArrayImpl", "numpy": "a ndarray", "objects": "a ndarray", "partial": "a Partial",
        "tree": "a PyTreeDef", "jaxpr": f"a {of_jaxpr}", "scalar": "0.5", "small": "2", "dtype": "int8",
        "bf16": "bfloat16", "fields": "a VoidDType",
        "spec": "P('data', None, ('data', 'b'), UNCONSTRAINED)",
        "mesh": "a mesh of data=2 on devices 0 to 1", "precision": "Precision.HIGHEST",
        "sharding": "P('data') over data=2 on devices 0 to 1", "device": "device 1",
    }  # fmt: skip
