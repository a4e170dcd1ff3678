"""Fourth: operators of the graph become functions of ours, each chosen for its layer."""
