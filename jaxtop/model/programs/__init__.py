"""The compiled programs of all hosts: their launches, compilations and operations."""
