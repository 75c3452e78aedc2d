"""The common parts of the agent: the board that its threads share, budgets, settings, threads, waiting.

What is where, in the order in which to read it:

- board.py: the state that the threads share; each group of fields has one writer
- settings.py: the settings, from the call, the environment or the default
- threads.py: threads that the script does not see
- waiting.py: waits for an event or a timeout, and pauses that release the GIL
- budget.py: the share of a core that each part may use
- capture.py: the capture that a viewer asked for, between two threads
- redaction.py: what may be a secret of the script, and is never sent
"""
