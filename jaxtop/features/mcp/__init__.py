"""Mcp: the answers of jaxtop for assistants, over standard input and output.

What is where, in the order in which to read it:

- size_limit.py: parts of a document that fit into an answer, and pages of its lists
- command_runner.py: runs a command of jaxtop, and returns its document with its age
- tools.py: what an assistant can ask
- command.py: `jaxtop mcp`
"""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "mcp",
    commands={
        "mcp": Command(
            "answer an assistant's questions about runs, over the Model Context Protocol",
            "jaxtop.features.mcp.command",
        ),
    },
)
