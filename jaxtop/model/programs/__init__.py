"""The compiled programs of all hosts: their launches, compilations and operations.

What is where, in the order in which to read it:

- program_updates.py: what a process reports about its programs
- loaded_programs.py: programs with the processes that loaded them
- views.py: the programs of the cluster, each once, with their figures
- launch_counts.py: launches that windows showed
- launch_durations.py: how long launches take, as a histogram
- rates.py: how often a process launches its programs
- compiles.py: the compilations, with their causes
"""
