"""What hosts are called: nouns of runs (`nouns.py`), names in sentences (`sentences.py`), `families.py`."""
