"""How operators run: schedule rules by target, and the builds that use them."""
