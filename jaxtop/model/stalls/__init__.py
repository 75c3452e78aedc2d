"""Stalls: which process delays the others, and where the threads of all processes are.

What is where, in the order in which to read it:

- reports.py: the reducer: stalls as events
- case.py: a run that may be stalled, and which hosts stand out
- diagnosis.py: which process delays the others
- lulls.py: since when a host launches nothing
- transfers.py: which process received much less than its peers
- witnesses.py: which process the libraries of devices single out
- crashes.py: scripts that ended with an exception, and what that caused
- stacks.py: hosts whose main threads are at the same place
- native.py: native frames as text
- stack_tree.py: stacks as a tree
"""
