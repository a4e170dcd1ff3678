"""What is computed: operator definitions in TIR and their NumPy references."""
