"""Plans: what the run would need and how fast it would be on another mesh or with other shardings.

What is where:

- plan.py, arguments.py: what a plan consists of: data only; meshes, shardings and sizes as they are typed
- today.py: the run as it is: all that a plan depends on; today_arrays.py, today_step.py,
  times/today_time.py: its arrays, the program of its step, and the time of one
- candidates.py, sharding.py, array_kinds.py: the meshes to compare; where each array lies on one of them;
  like arrays merged into one
- memory.py, temporaries.py, buffers.py: the memory of a device; bounds of what the compiler adds,
  narrowed by the buffers at the peak
- roles.py: what arrays are for
- times/: the collectives of a candidate (`communication.py`, `activations.py`), and what they cost over
  its links, measured or published (`links.py`, `published_costs.py`); what computing takes (`work.py`);
  the time of a step (`timing.py`)
- planner.py, moves.py, gathers.py: all of it for each candidate; changes worth making, and arrays that
  are gathered again and again
- sentences.py: parts of a plan in words
- compilations.py, ../messages.py: what a compilation for each candidate is asked, and what its answer
  means; the messages
"""
