"""The lines of the script behind operations, in the forms in which versions of JAX write them."""

from __future__ import annotations

import pytest

from jaxtop_agent.programs import lines
from jaxtop_agent.programs.source_lines import Frames
from tests.support import PYTHON, run, script

SITE = "/usr/lib/python3.11/site-packages"
HEADER = f"""HloModule jit_step, is_scheduled=true

FileNames
1 "/home/me/train.py"
2 "{SITE}/flax/linen/linear.py"
3 "{SITE}/jax/_src/lax.py"

FunctionNames
1 "<module>"
2 "Dense.__call__"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=12 end_line=12 column=2 end_column=2}}
2 {{file_name_id=2 function_name_id=2 line=271 end_line=271 column=8 end_column=8}}
3 {{file_name_id=3 function_name_id=2 line=8}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=3}}
4 {{file_location_id=2}}
5 {{file_location_id=2 parent_frame_id=6}}

"""


def operation(metadata: str) -> lines.Instruction:
    by = lines.read(f"  %dot = f32[8]{{0}} dot(%a, %b), {metadata}, backend_config={{}}")
    assert by is not None
    return by


class TestFrames:
    @pytest.mark.parametrize(
        ("frame", "line"),
        [
            (1, "train.py:12"),
            (2, "train.py:12"),  # in a library, called from the script
            (3, "train.py:12"),
            (4, "linear.py:271"),  # in a library, the caller is not listed
            (5, "linear.py:271"),  # its own caller: no endless search
            (6, ""),
            (10**9, ""),
        ],
    )
    def test_the_line_of_the_script_is_found_through_libraries(self, frame, line):
        by = operation(f'metadata={{op_name="jit(step)/dot_general" stack_frame_id={frame}}}')
        assert Frames(HEADER).line(by) == line

    def test_a_line_beside_the_operation(self):
        by = operation(
            'metadata={op_type="dot" op_name="jit(step)/layer/dot_general" '
            'source_file="/home/me/a \\"b\\".py" source_line=7 source_end_line=7 source_column=8}'
        )
        assert Frames().line(by) == 'a \\"b\\".py:7'
        assert by.name_stack == "jit(step)/layer/dot_general"
        assert by.source == "dot_general"

    @pytest.mark.parametrize("metadata", ["", "metadata={}", 'metadata={op_name="x"}', 'metadata={op_name="'])
    def test_no_line_is_invented(self, metadata):
        by = operation(metadata)
        assert by.place is None and by.frame is None
        assert Frames(HEADER).line(by) == ""

    @pytest.mark.parametrize("cut", range(0, len(HEADER), 37))
    def test_a_header_that_is_cut_short(self, cut):
        assert Frames(HEADER[:cut]).line(operation("metadata={stack_frame_id=2}")) in {
            "", "train.py:12", "linear.py:271", "train.py:1", ":271", "linear.py:27", "linear.py:2",
        }  # fmt: skip

    def test_a_name_stack_may_contain_anything(self):
        by = operation('metadata={op_name="f(a={x}, \\"source_line=3\\")/g" stack_frame_id=1}')
        assert Frames(HEADER).line(by) == "train.py:12"
        assert by.name_stack == 'f(a={x}, "source_line=3")/g'
        argument = operation(r"""metadata={op_name="params[\'w\']"}""")  # as the compiler writes quotes
        assert argument.name_stack == "params['w']"


COMPILED = """
    import jax
    from jaxtop_agent import jaxprivate
    from jaxtop_agent.programs import lines
    from jaxtop_agent.programs.source_lines import Frames

    def step(x):
        return (x @ x).sum()  # this line

    executable = jax.jit(step).lower(jax.numpy.ones((4, 4))).compile().runtime_executable()
    module = jaxprivate.module(executable)
    printed = jaxprivate.module_text(module, brief=False).split("\\n")
    operations = [by for each in printed if (by := lines.read(each)) and "jit(step)" in by.name_stack]
    print(sorted({Frames.of(module, 10).line(by) for by in operations} - {""}))
    print({Frames.of(module, 1 << 30).line(by) for by in operations if by.frame is not None} <= {""})
"""


@pytest.mark.jax
def test_frames_of_a_module_that_jax_compiled(tmp_path):
    """In versions that write the lines beside the operations the header has no frames."""
    file = script(tmp_path, COMPILED)
    line = 1 + file.read_text().split("\n").index("    return (x @ x).sum()  # this line")
    assert run(PYTHON, file).stdout == f"['{file.name}:{line}']\nTrue\n"
