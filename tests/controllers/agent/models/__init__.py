"""Tests of `planloop.controllers.agent.models`; what all models have in common is in
`tests/contracts/models_contract.py`."""
