"""Made-up messages, runs, programs, profiles and agents, of which each figure is known.

- agents.py: agents and relays in threads, with real sockets and keys; their messages are made up
- allocators.py: devices whose allocators answer as those of accelerators do, and what the agent reads of
  them
- clusters.py: clusters for exports: one where little is known, and one whose every figure is another number
- every_message.py: one message of every kind, and what a network may make of its bytes
- h100.py: what was recorded on an H100: the files of `data/h100` (see its README)
- hlo_texts.py: texts of compiled programs for tests, and what is asserted of them
- ledgers.py: made ledgers of processes: what they spend their time on is planted
- mutants.py: messages that a faulty or hostile agent could send: well-formed, with odd values in odd places
- odd_messages.py: messages that are well formed, with one or a few values in them that no honest agent
  would send
- programs.py: compiled programs as a profiler keeps them, in the format of `xla/service/hlo.proto`
- runs.py: stories of whole runs with collectives, from what was made up of their windows
- sessions.py: hours of a run that never was, as the frames that a viewer would have received
- traces.py: traces of accelerators with the structure of captured ones, and with waits that are known
- windows.py: collectives of a program that never ran: inventories, and windows with a known latecomer and
  noise
- xspace.py: makes traces by hand, in the profiler's own format (xplane.proto), for devices that no test
  machine has
"""
