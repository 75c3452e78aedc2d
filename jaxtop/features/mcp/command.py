"""`jaxtop mcp`: answers an assistant over standard input and output until these are closed."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from jaxtop import __version__
from jaxtop.cli import targets
from jaxtop.cli.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

INSTRUCTIONS = (
    "jaxtop watches JAX training runs. All tools only read. Begin with `status` or `findings`. Every answer "
    "has `at` and `age_s`, the moment it is of and how old that is. Unknown values are null, and are not 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "TARGET is what a question is about that names none; needs pip install 'jaxtop[mcp]'"
    targets.add_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    try:
        from mcp.server.mcpserver import MCPServer  # an extra
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise UserError("`jaxtop mcp` needs mcp 2 or newer: pip install 'jaxtop[mcp]'") from None
    from jaxtop.features.mcp.command_runner import NoReply
    from jaxtop.features.mcp.tools import Tools

    def as_tool(question: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(question)
        async def answer(*given: Any, **named: Any) -> Any:
            try:
                return await question(*given, **named)
            except NoReply as error:
                raise ToolError(str(error)) from None

        return answer

    tools = Tools(arguments.target, _options(arguments))
    server = MCPServer("jaxtop", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    for each in (tools.runs, tools.status, tools.findings, tools.snapshot, tools.compare, tools.plan):
        server.tool(structured_output=False)(as_tool(each))
    server.run("stdio")
    return 0


def _options(arguments: argparse.Namespace) -> list[str]:
    """Return the options as they were given, for the commands that answer."""
    given = [(name, getattr(arguments, name)) for name in ("hostfile", "via", "owner")]
    given += [("map", each) for each in arguments.map]
    return [f"--{name}={value}" for name, value in given if value is not None]
