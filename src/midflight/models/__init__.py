"""Language models behind one Protocol: what is asked, what comes in pieces, what it has cost."""
