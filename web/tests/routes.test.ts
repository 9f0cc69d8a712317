import { expect, it, vi } from "vitest";

async function opened(pathname: string): Promise<typeof import("../src/routes")> {
  vi.resetModules();
  vi.stubGlobal("location", { pathname });
  return import("../src/routes");
}

it.each([
  ["/plan/task/~", "plan", "task/."],
  ["/locks/lock/100%25%2Fx", "locks", "lock/100%/x"],
  ["/locks/lock/100%/a%ff", "locks", "lock/100%/a%ff"],
  ["/nowhere/%", "plan", ""],
])("the page opens at %s", async (pathname, page, rest) => {
  expect((await opened(pathname)).place.value).toEqual({ page, rest });
});

it.each([
  ["task/.", "plan", "task/."],
  ["task/back end/a#b", "plan", "task/back end/a#b"],
  ["agent/front/ui", "agents", "front/ui"],
  ["call/0f3a", "plan", "call/0f3a"],
  ["thread/0f3a.1", "plan", "thread/0f3a.1"],
  ["hook/front/careful", "plan", "hook/front/careful"],
  ["fork/front", "plan", "fork/front"],
  ["lock/src/**", "locks", "lock/src/**"],
  ["conflict/3", "locks", "conflict/3"],
  ["container/db", "containers", "db"],
  ["approval/docs.1", "approvals", "docs.1"],
])("the link to %s opens the page that shows it", async (address, page, rest) => {
  const { linkTo } = await opened("/");
  expect((await opened(linkTo(address).split(/[?#]/)[0] ?? "")).place.value).toEqual({ page, rest });
});

it("only links to the plan keep the view", async () => {
  vi.resetModules();
  vi.stubGlobal("location", { pathname: "/plan", search: "?view=graph" });
  const { href, linkTo } = await import("../src/routes");
  expect([href("plan"), linkTo("task/a"), href("locks", "lock/x")]).toEqual(["/plan?view=graph", "/plan/task/a?view=graph", "/locks/lock/x"]);
});
