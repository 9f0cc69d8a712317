"""A tool server in the loop of a test behaves as the same server in a process of its own."""

from __future__ import annotations

import pytest

from planloop.controllers.mcp.server_process import StartServer, launch_server
from tests.contracts.tool_servers_contract import ToolServersContract
from tests.servers.in_process import InProcess

pytestmark = pytest.mark.anyio


class TestInProcess(ToolServersContract):
    @pytest.fixture
    def start(self) -> StartServer:
        return InProcess()


@pytest.mark.process
class TestProcess(ToolServersContract):
    @pytest.fixture
    def start(self) -> StartServer:
        return launch_server
