"""The agent for a process that was started without it: what the process is, and the ways into it.

What is where, in the order in which to read it:

- command.py: `jaxtop inject`
- target.py: the process that gets the agent, or why it cannot
- request.py: the folder that the command and the process share
- remote.py: the way through Python itself, from 3.14 on
- tracer.py: the way through ptrace
- borrow.py: borrows a thread of a process by ptrace
- symbols.py: addresses of exported functions in a process
- payload.py: the function that is put into a process
- bootstrap.py: what runs in the process, and starts the agent
- doctor.py: what `jaxtop doctor` says about `inject`
"""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "inject",
    commands={
        "inject": Command(
            "start the agent in a JAX process that runs already", "jaxtop.features.inject.command"
        ),
    },
    hooks={"doctor_checks": "jaxtop.features.inject.doctor:checks"},
)
