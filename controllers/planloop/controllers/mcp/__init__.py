"""Tool servers that speak the Model Context Protocol: started when needed, supervised, and called for agents."""
