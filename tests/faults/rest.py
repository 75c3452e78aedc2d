"""The plain program on devices that take their time without a core, as accelerators do.

Its healthy hours can be measured beside other work.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from jaxtop_agent.demo import train as demo
from tests.faults import plain

STEP_S, HIDDEN = 0.1, 512


def _rest(x):
    time.sleep(STEP_S)
    return x


def _compute(x):
    import jax  # the demo's main sets the environment before it is imported

    return jax.pure_callback(_rest, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


if __name__ == "__main__":
    sys.exit(demo.main(program=partial(plain.train, hidden=HIDDEN, compute=_compute)))
