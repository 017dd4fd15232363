"""Drives `recall mcp` with the official Python client: search, timeline, get, remember, resolve.

Usage: client.py RECALL FOLDER. The environment is the server's. Fails with an exception if anything is not as it should be.
"""

import asyncio
import os
import re
import sys

from mcp import Client, StdioServerParameters


def text_of(result):
    assert not result.is_error, result
    return result.content[0].text


async def play(server, mode):
    async with Client(server, mode=mode) as client:
        assert client.server_info.name == "recall"
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:2] == ["search", "timeline"] and names[-1] == "resolve", names

        found = await client.call_tool("search", {"query": "cart rounding"})
        best = re.search(r"^#\d+", text_of(found), re.MULTILINE)[0]
        around = await client.call_tool("timeline", {"id": best, "before": 3, "after": 3})
        assert best in text_of(around), around
        whole = await client.call_tool("get_observations", {"ids": [best]})
        assert "Rounding happens once" in text_of(whole), whole

        kept = await client.call_tool("remember", {"text": f"The cart is painted {mode} green."})
        note = re.match(r"Remembered as (#\d+)", text_of(kept))[1]
        again = await client.call_tool("search", {"query": f"painted {mode} green"})
        assert note in text_of(again), again
        resolved = await client.call_tool("resolve", {"ids": [note]})
        assert "is resolved" in text_of(resolved), resolved

        missing = await client.call_tool("get_observations", {"ids": [4711]})
        assert missing.is_error, missing
        summary = (await client.list_resources()).resources[0]
        assert "first" in (await client.read_resource(summary.uri)).contents[0].text
        prompt = await client.get_prompt("what-do-you-know", {"subject": "rounding"})
        assert "#" in prompt.messages[0].content.text, prompt


async def main():
    recall, folder = sys.argv[1:]
    server = StdioServerParameters(command=recall, args=["mcp"], cwd=folder, env=dict(os.environ))
    for mode in ("auto", "legacy"):
        await asyncio.wait_for(play(server, mode), timeout=60)


asyncio.run(main())
