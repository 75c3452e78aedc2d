"""The hardware as published or as its drivers describe it: chips, fast links, allocators."""
