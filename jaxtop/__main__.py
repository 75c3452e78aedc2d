"""Run jaxtop as `jaxtop` or `python -m jaxtop`: an interrupt ends it without a traceback."""

import sys

from jaxtop import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` itself imports what takes long enough to be interrupted


def main() -> int:
    """Run the command of the command line; return its exit status."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        from jaxtop import cli  # interrupts are ignored, as in the background of a shell

        return cli.main()
    # Interrupted imports show tracebacks, and those of compiled modules may crash.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jaxtop import cli

    try:
        return cli.main(begin=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:  # so does the end of the interpreter
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
