"""The overview: what is wrong or what bounds the run, and panels that answer the other questions.

What is where, in the order in which to read it:

- panels.py: what a panel is: it says how many lines it can use for a width, and draws them
- arrange.py: which panels stand where, for any size
- answers.py: the findings with cost, cause and next step; of a healthy run, what bounds it
- anatomy.py, steps.py: where a step goes, now and over time; how long it takes
- mesh.py, memory.py, machines.py, hosts.py: devices, memory, input, processes
- history.py, tables.py: events and compilations of the last hour; collectives, growing arrays, programs
- starting.py: what is there before the first step
"""
