"""The agent, its publisher, sampler and registrar: the threads that connect all other parts.

What is where, in the order in which to read it:

- agent.py: the life of the agent: it waits for JAX, starts its threads, and ends them
- own_threads.py: starts and joins the threads of the agent, and knows their names
- assembly.py: makes everything that works on the board, and connects it
- roles.py: what this process is for among those that belong together
- family_peers.py: the agents of the same family on this machine
- identity.py: the identity of an agent
- flags.py: the flags that all processes of a run must share
- addresses.py: chooses the address to serve on
- sampler.py: the thread that calls the collectors
- messages.py: builds the messages from the board
- publisher.py: the thread with the sockets and the pulse
- answers.py: the answers to requests of viewers
- registrar.py: exchanges addresses through JAX's coordination service
- logthread.py: the thread that writes the debug log
"""
