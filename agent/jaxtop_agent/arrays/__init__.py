"""The census of live arrays: their kinds, their names in the script, and their shardings.

What is where, in the order in which to read it:

- census.py: counts the live arrays by kind and by name, and keeps none alive
- listing.py: limits how many arrays are listed in one call
- walk.py: walks from the variables of running functions to the arrays that they hold
- running_frames.py: reads the frames of running threads safely
- frames.py: reads the variables of running functions
- containers.py: reads containers without running code of the script
- values.py: the values at the places of a walk, between two walks
- paths.py: the names of arrays, from one census to the next
- watched_names.py: the names that the script gives with `agent.watch()`
- roles.py: the role of an array, from its name or the type of its container
- origins.py: the line of the script that created something
- specs.py: partition specs, meshes and shardings as text
- shardings.py: shardings and meshes as values, compared and numbered
- table.py: the census as messages, first in full, then its changes
"""
