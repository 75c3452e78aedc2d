"""Where the hours of this process went: each moment since its start is attributed to one kind.

What is where, in the order in which to read it:

- pieces.py: pieces of time, with their exact bounds and the samples in them
- usual_gaps.py: gaps of usual length between two functions, and the share of each kind in them
- account.py: from launches, samples and exact times to sums by kind; no clock, no JAX
- evidence.py: what a stack says about what the script does: it saves, restores, evaluates, waits for input
- queues.py: how full the queue is in which the main thread waits for input
- phases.py: the phases that the script names
- written_bytes.py: how many bytes the process has written
- thread.py: the thread that keeps the account, sends it and writes it
- file.py: the file of one process, which its successors' sums are made of
"""
