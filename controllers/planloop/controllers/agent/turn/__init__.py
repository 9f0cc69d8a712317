"""One turn of an agent, from waking to rest: decide, prompt, ask, authorize, run, record.

To follow one turn from waking to rest, read these modules in this order:

1. `planloop.reconciler.engine.engine`: a change of an object that the agent refers to wakes its controller.
2. `planloop.controllers.agent.controller`: observe, decide, take the step, until the agent rests.
3. `planloop.controllers.agent.observe`: what a decision reads.
4. `planloop.controllers.agent.decide`: the next step, or how the agent rests.
5. `planloop.controllers.agent.mail.wake_reasons`: why a turn starts, and the news that it contains.
6. `planloop.controllers.agent.turn.records`: the records of a turn, from its start to its end.
7. `planloop.controllers.agent.turn.ask`: ask the decider, in place or in a job, and record its reply.
8. `planloop.controllers.agent.turn.prompt`: the prompt of a model.
9. `planloop.controllers.agent.turn.model_request`: the request to a model, its cost, its failure, its reply as calls.
10. `planloop.controllers.agent.turn.authorization`: which calls of the reply may start, by permissions and hooks.
11. `planloop.controllers.agent.turn.call_run`: start the calls, run them, and write their results.
12. `planloop.controllers.agent.mixins.middleware`: the layers of mixins around a request and around a call.

After the first step, the engine is mostly not involved: a job that ends writes its result and takes the next steps
itself (`AgentReconciler._take_next_steps_in_job`). Modules that these steps use and that use none of them:
`planloop.controllers.agent.status` (the typed status), `planloop.controllers.agent.services` (ports),
`planloop.controllers.agent.batch` (several steps as one record), and in this package `permissions` (which calls are
allowed), `call_locks` (locks of calls) and `transcript` (chat messages and compaction).
"""
