"""The contents of compiled programs, read from the compiler's own text: collectives, operations, bytes."""
