"""What commands of agents and tasks are enclosed in: bounds, bubblewrap, or a container; found out by trying."""
