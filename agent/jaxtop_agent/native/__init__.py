"""Native stacks of threads that wait in the kernel, without stopping the process and without a debugger.

The kernel says where a thread waits, and the unwind tables of libraries say how to find its callers. All
memory is read through the kernel, so a wrong address is an error. Nothing here is imported before a process
hangs.

What is where, in the order in which to read it:

- tasks.py: the threads of the process, and where each waits
- memory.py: the mappings of the process, and reads of its memory
- objects.py: programs and libraries, by their ELF headers
- cursor.py: the numbers of which unwind tables consist
- entries.py: the entry of an address in the unwind tables
- rules.py: the instructions and expressions of an entry
- callers.py: frame pointers that no inner function has saved
- unwinding.py: from the innermost frame to the outermost
- symbols.py: names of functions, from symbol tables
- names.py: names that can be read
- telling.py: which function says what a thread waits for
- calls.py: what a thread waits for, by its system call
- sampling.py: the stacks of the main thread and of threads that communicate
"""
