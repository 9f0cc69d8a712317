"""What mixins do to calls and turns: layers around them, made from the steps in an agent's spec."""
