"""What names of functions and files say about what a script does."""

import queue
import sys
import textwrap

import pytest

from jaxtop_agent.ledger.evidence import StackKinds, evaluates, kind_of_function
from jaxtop_agent.ledger.pieces import CLOSING, IN_SCRIPT

SCRIPT = "/home/me/train.py"
QUEUE = queue.__file__


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("save", "saving"),
        ("save_checkpoint", "saving"),
        ("_save_state", "saving"),
        ("saveCheckpoint", "saving"),
        ("restore", "restoring"),
        ("restore_or_init", "restoring"),
        ("load_checkpoint", "restoring"),
        ("from_pretrained", "restoring"),
        ("evaluate", "evaluating"),
        ("run_eval", "evaluating"),
        ("validate", "evaluating"),
        ("next_batch", "input"),
        ("get_batch", "input"),
        ("data_iterator", "input"),
        ("tokenize", "input"),
        # Words that only contain such a name, and functions around the loop of steps.
        ("train_step", ""),
        ("train_and_evaluate", ""),
        ("main", ""),
        ("fit_with_checkpoints", ""),
        ("retrieval", ""),
        ("saver_free", ""),
        ("invalidate", ""),
        ("batch_norm", ""),
        ("eval_epoch", "evaluating"),
        ("evaluation_loop", "evaluating"),
        ("test_epoch", "evaluating"),
        ("run_valid", "evaluating"),
        ("train_epoch_with_eval", ""),
        ("eval_shape", ""),
        ("literal_eval", ""),
        ("is_valid", ""),
        ("valid_mask", ""),
        # What is saved is no checkpoint.
        ("save_image", ""),
        ("save_sample_images", ""),
        ("save_metrics_to_csv", ""),
    ],
)
def test_a_function_is_known_by_the_words_of_its_name(name, kind):
    assert kind_of_function(SCRIPT, name) == kind


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        (QUEUE, "get", "input"),
        (QUEUE, "put", ""),
        (QUEUE.replace("queue.py", "multiprocessing/queues.py"), "get", "input"),
        (QUEUE.replace("queue.py", "multiprocessing/pool.py"), "next", "input"),
        ("/home/me/queue.py", "get", ""),
        # Folders of the script that have such names.
        ("/home/me/finegrain/train.py", "step", ""),
        ("/home/me/datasets/mnist/train.py", "run", ""),
        ("/venv/lib/python3.11/site-packages/grain/__init__.py", "<module>", ""),
        ("/venv/lib/python3.11/site-packages/grain/_src/python/checkpoint_handlers.py", "save", ""),
        ("/venv/lib/python3.11/site-packages/PIL/Image.py", "save", ""),
        ("/venv/lib/python3.11/site-packages/numpyro/distributions/distribution.py", "_validate_sample", ""),
        ("/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", "__next__", "input"),
        ("/venv/lib/python3.11/site-packages/grain/_src/python/data_loader.py", "__next__", "input"),
        ("/venv/lib/python3.11/site-packages/jax/_src/ad_checkpoint.py", "checkpoint", ""),
        ("/venv/lib/python3.11/site-packages/orbax/checkpoint/manager.py", "save", "saving"),
        ("/venv/lib/python3.11/site-packages/orbax/checkpoint/manager.py", "restore", "restoring"),
        ("/venv/lib/python3.11/site-packages/orbax/checkpoint/manager.py", "wait_until_finished", "saving"),
        ("/venv/lib/python3.11/site-packages/orbax/checkpoint/manager.py", "close", ""),
    ],
)
def test_a_file_of_a_library_is_known_by_its_path(file, name, kind):
    assert kind_of_function(file, name) == kind


def test_a_compiled_function_evaluates_by_its_name():
    assert [evaluates(name) for name in ("eval_step", "evaluate", "train_step", "step", "valid_loss")] == [
        True,
        True,
        False,
        False,
        True,
    ]


def stack_of(frame):
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found[: [each.f_code.co_name for each in found].index("<module>") + 1]


def seen(source, file=SCRIPT):
    """Return the stack at the call of `look` in this source."""
    found = []
    names = {"look": lambda: found.append(stack_of(sys._getframe(1)))}
    exec(compile(textwrap.dedent(source), file, "exec"), names)
    return found[0]


GENERATOR = """
    def samples():
        yield look()
    for each in samples(): pass
"""
ITERATOR = """
    class Loader:
        def __next__(self): look(); raise StopIteration
        def __iter__(self): return self
    for each in Loader(): pass
"""


@pytest.mark.parametrize("source", [GENERATOR, ITERATOR])
def test_a_generator_or_iterator_of_the_script_produces_its_input(source):
    stack = seen(source)
    assert StackKinds().kind(stack, is_in_jax=False) == "input"
    library = seen(source, "/venv/lib/python3.11/site-packages/tool/code.py")
    assert StackKinds().kind(library, is_in_jax=False) == IN_SCRIPT


def test_a_generator_around_the_steps_produces_no_input():
    stack = seen(GENERATOR)
    stacks = StackKinds()
    for _ in range(10):
        stacks.kind(stack, is_in_jax=True)
    assert stacks.kind(stack, is_in_jax=False) == IN_SCRIPT
    assert StackKinds().kind(seen("any(look() for _ in range(1))"), is_in_jax=False) == IN_SCRIPT


def test_an_import_of_a_library_is_no_input():
    inner = seen(GENERATOR)
    importing = seen("look()", "<frozen importlib._bootstrap>")
    outer = seen("look()")
    assert StackKinds().kind([*inner, *importing, *outer], is_in_jax=False) == IN_SCRIPT


def test_a_loader_that_ends_its_workers_is_told_from_one_that_waits():
    loader = "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
    waits = seen("def _try_get_data(): look()\n_try_get_data()", loader)
    ends = seen("def _shutdown_workers(): look()\n_shutdown_workers()", loader)
    stacks = StackKinds()
    assert stacks.kind(waits, is_in_jax=False) == "input"
    assert stacks.kind(ends, is_in_jax=False) == stacks.kind([*waits, *ends], is_in_jax=False) == CLOSING
    assert stacks.kind(seen("def close(): look()\nclose()"), is_in_jax=False) == IN_SCRIPT
