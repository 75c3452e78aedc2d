"""What names of functions and files say about what a script does."""

import pytest

from jaxtop_agent.ledger.evidence import evaluates, kind_of_function

SCRIPT = "/home/me/train.py"


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
    ],
)
def test_a_function_is_known_by_the_words_of_its_name(name, kind):
    assert kind_of_function(SCRIPT, name) == kind


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        ("/usr/lib/python3.11/queue.py", "get", "input"),
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
