"""What hosts are called: the noun of a run (`nouns.py`), names in sentences (`sentences.py`); `families.py`."""
