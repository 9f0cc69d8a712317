"""The plan object itself: pending objects, overall state and conditions. Patches of the document go to the gate."""

from planloop.controllers.plan.reconciling import PlanReconciler

__all__ = ["PlanReconciler"]
