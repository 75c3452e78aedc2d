"""The wire: what is said arrives, what is not understood harms nobody."""

from __future__ import annotations

import os
import random

import msgpack
import msgspec
import pytest

from jaxtop import wire
from tests.made.every_message import HELLO, MESSAGES, PULSE, mutated, parts

REQUESTS = (wire.Request("pace", 500), wire.Reply("ping", "no", 10))
MUTATIONS = 6000


def test_the_samples_cover_every_kind_of_message():
    assert {wire.kind_of(message) for message in MESSAGES} == set(wire.KINDS)


@pytest.mark.parametrize("message", MESSAGES, ids=wire.kind_of)
def test_a_message_arrives_as_it_was_sent(message):
    frame = wire.unpack(parts(message), at=3.5)
    assert frame[:4] == (3.5, "a1", wire.kind_of(message), 5)
    assert wire.decode(frame.kind, frame.raw) == message


@pytest.mark.parametrize("message", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_and_its_answer_arrive_as_they_were_sent(message):
    assert wire.decode_as(type(message), wire.encode(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=wire.kind_of)
def test_any_client_can_read_a_message_as_plain_messagepack(message):
    plain = msgpack.unpackb(wire.encode(message))
    assert wire.kind_of(message) in (plain.values() if isinstance(plain, dict) else plain[:1])


def test_text_that_is_no_unicode_is_written_legibly():
    """Arguments and file names may hold any bytes; Python hands them on as lone surrogates."""
    odd = os.fsdecode(b"caf\xe9.py")
    told = wire.decode("hello", wire.encode(msgspec.structs.replace(HELLO, argv=(odd, "--lr"))))
    assert told == msgspec.structs.replace(HELLO, argv=("caf\\udce9.py", "--lr"))
    said = wire.decode(
        "pulse", wire.encode(wire.Pulse(10, launches={odd: 3}, step=wire.Step(1, 2, {odd: 0.5})))
    )
    assert said.launches == {"caf\\udce9.py": 3} and said.step.metrics == {"caf\\udce9.py": 0.5}


def test_fields_of_a_newer_sender_are_skipped():
    """A struct sent by name may have more names, one sent by place more places, also deep inside."""
    by_name = {**msgpack.unpackb(wire.encode(HELLO)), "weather": ["new", {"deep": 1}]}
    by_name["devices"][0]["colour"] = "green"
    assert wire.decode("hello", msgpack.packb(by_name)) == HELLO
    by_place = [*msgpack.unpackb(wire.encode(PULSE)), "new", {"deep": 1}]
    by_place[4] = [*by_place[4], [1, 2]]  # a column more in the figures of the devices
    assert wire.decode("pulse", msgpack.packb(by_place)) == PULSE
    header = msgpack.packb([wire.VERSION, "a1", 5, "new"])
    assert wire.unpack([b"pulse", header, wire.encode(PULSE)], 0.0).sequence == 5


def test_fields_that_an_older_sender_does_not_know_take_their_default():
    """What nobody said is unknown, not zero."""
    pulse = wire.decode("pulse", msgpack.packb(["pulse", 10]))
    assert pulse == wire.Pulse(at_ms=10)
    assert pulse.devices.used_bytes is None and pulse.host.rss_bytes is None and pulse.cost.cpu_ppm is None
    required = ("agent", "hostname", "pid", "process_started_ticks", "boot", "pid_namespace", "started_ms")
    required += ("telemetry", "requests", "interval_ms", "jaxtop", "python", "type")
    whole = msgpack.unpackb(wire.encode(HELLO))
    hello = wire.decode("hello", msgpack.packb({name: whole[name] for name in required}))
    assert (hello.run, hello.process_index, hello.jax, hello.devices) == (None, None, None, ())


def test_a_message_without_a_required_field_is_unreadable():
    whole = msgpack.unpackb(wire.encode(HELLO))
    for name in ("agent", "pid", "telemetry"):
        with pytest.raises(wire.Unreadable, match=name):
            wire.decode("hello", msgpack.packb({k: v for k, v in whole.items() if k != name}))


def test_a_message_is_decoded_as_its_own_kind_only():
    for message in MESSAGES:
        for kind in wire.KINDS.keys() - {wire.kind_of(message)}:
            with pytest.raises(wire.Unreadable):
                wire.decode(kind, wire.encode(message))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        b"\x90" * 100_000,
        b"\x91" * 200_000,
        b"\x81\xa1a" * 60_000,
        msgpack.packb(["pulse", "noon"]),
        msgpack.packb(["pulse", 1 << 63, None, None, [["a"]]]),
        msgpack.packb(["pulse", 1.5]),
        msgpack.packb(["pulse", 10, None, None, [], [], {"step": "many"}]),
        b"\xdd\xff\xff\xff\xff",  # an array of four billion, of which nothing comes
        b"\xdb\xff\xff\xff\xffabc",
        wire.encode(PULSE) + b"\x00",
        b"\x92\xa5pulse\xd3",
        b"\x91\xa5p\xffls\xfe",
    ],
    ids=range(14),
)
def test_hostile_bytes_are_unreadable_and_nothing_else(raw):
    with pytest.raises(wire.Unreadable):
        wire.decode("pulse", raw)


def test_truncated_and_mutated_messages_are_read_or_unreadable_and_nothing_else():
    """Whatever is flipped, cut, doubled or inserted anywhere in a message, only Unreadable comes out."""
    dice = random.Random(20260102)
    unreadable = 0
    for _ in range(MUTATIONS):
        whole = parts(dice.choice(MESSAGES))
        which = dice.choice((0, 1, 2, 2, 2, 2))
        whole[which] = mutated(whole[which], dice)
        try:
            frame = wire.unpack(whole, 0.0)
            if frame.kind in wire.KINDS:
                wire.decode(frame.kind, frame.raw)
        except wire.Unreadable:
            unreadable += 1
    assert MUTATIONS / 4 < unreadable < MUTATIONS


def test_a_message_that_is_too_large_is_refused_before_it_is_read():
    large = wire.Event(10, "info", "log", "x" * wire.MAX_PAYLOAD)
    with pytest.raises(wire.Unreadable, match="more than a message may have"):
        wire.unpack(parts(large), 0.0)
    with pytest.raises(wire.Unreadable, match="more than a message may have"):
        wire.decode("event", wire.encode(large))
    room = wire.MAX_PAYLOAD - len(wire.encode(wire.Event(10, "info", "log", ""))) - 8
    largest = wire.Event(10, "info", "log", "x" * room)
    assert wire.decode("event", wire.unpack(parts(largest), 0.0).raw) == largest


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_a_message_has_three_parts(count):
    with pytest.raises(wire.Unreadable, match=f"{count} parts"):
        wire.unpack([b"pulse"] * count, 0.0)


def test_a_newer_version_says_so_in_words():
    """Also when the newer header has grown; the reader learns what to do."""
    with pytest.raises(wire.NewerVersion, match=r"version 4, .* up to 3; upgrade jaxtop"):
        wire.unpack(parts(PULSE, version=wire.VERSION + 1), 0.0)
    grown = msgpack.packb([wire.VERSION + 1, "a1", 5, {"new": True}])
    with pytest.raises(wire.NewerVersion):
        wire.unpack([b"pulse", grown, b"whatever it says"], 0.0)


def test_an_older_version_says_what_to_upgrade():
    with pytest.raises(wire.Unreadable, match=r"version 2, .* reads 3; upgrade jaxtop in the run"):
        wire.unpack(parts(PULSE, version=wire.VERSION - 1), 0.0)


@pytest.mark.parametrize(
    ("ids", "runs"),
    [
        ((), ()),
        ((5,), ((5, 1),)),
        ((0, 1, 2, 3, 2048, 2049), ((0, 4), (2048, 2))),
        ((3, 2, 1), ((3, 1), (2, 1), (1, 1))),
        (tuple(range(8192)), ((0, 8192),)),
        ((0, 2, 1, 3), ((0, 1), (2, 1), (1, 1), (3, 1))),
    ],
    ids=str,
)
def test_device_ids_travel_as_runs_in_their_order(ids, runs):
    assert wire.pack_ids(ids) == runs
    assert wire.unpack_ids(runs) == ids


def test_any_order_of_device_ids_survives():
    dice = random.Random(7)
    for _ in range(200):
        ids = tuple(dice.sample(range(40), dice.randrange(40)))
        assert wire.unpack_ids(wire.pack_ids(ids)) == ids


@pytest.mark.parametrize(
    "runs",
    [((0, wire.MAX_DEVICES + 1),), ((0, 1 << 62),), ((0, 1 << 40), (0, -(1 << 40))), ((0, 4), (4, -1))],
    ids=str,
)
def test_runs_that_no_mesh_has_are_refused_before_they_are_unrolled(runs):
    with pytest.raises(wire.Unreadable):
        wire.unpack_ids(runs)


def test_messages_cannot_be_changed():
    with pytest.raises(AttributeError):
        PULSE.at_ms = 11
    assert all(kind.__struct_config__.frozen for kind in (*wire.KINDS.values(), wire.Header))


def test_figures_travel_as_integers():
    """Noise in floats would triple a recording: only what scripts and engines say themselves is a float."""
    floats = {
        f"{kind.__name__}.{field.name}"
        for kind in (
            wire.Pulse,
            wire.DeviceSample,
            wire.HostSample,
            wire.AgentCost,
            wire.Arrays,
            wire.ArrayGroup,
        )
        for field in msgspec.structs.fields(kind)
        if "float" in str(field.type)
    }
    assert floats == {"Pulse.served"}
