"""The time of a step: where it goes today, and what it is on another mesh.

What is where, in the order in which to read it:

- today_time.py: where the time of a step goes today, and what its links cost
- timing.py: the time of a step on another mesh
- work.py: what computing takes there
- communication.py: the collectives of a step there
- activations.py: collectives that activations cause over a new axis
- links.py: what a collective costs over links
- published_costs.py: published costs of links
"""
