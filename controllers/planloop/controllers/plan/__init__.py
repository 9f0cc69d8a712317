"""Plan controller: create pending objects, and keep the state and conditions of the plan."""
