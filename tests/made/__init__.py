"""Made-up messages, runs, programs, profiles and agents, of which each figure is known.

- every_message.py: one message of each kind, and what a network may make of its bytes
- odd_messages.py, mutants.py: well-formed messages that no honest agent would send
- agents.py: agents and relays in threads, with real sockets and keys and made-up messages
- allocators.py: devices whose allocators answer like those of accelerators
- clusters.py: clusters for exports: little is known of one, and each figure of the other differs
- ledgers.py: ledgers of processes with planted times
- sessions.py: hours of a run, as the frames that a viewer would have received
- windows.py, runs.py: windows of collectives with a known latecomer and noise; whole runs with them
- programs.py, hlo_texts.py: compiled programs, as in profiles and as text
- traces.py, xspace.py: traces of accelerators with known waits; traces built event by event
- h100.py: what was recorded on an H100
"""
