"""What a machine does with the numbers of a contraction; pairs that nobody tested are refused."""
