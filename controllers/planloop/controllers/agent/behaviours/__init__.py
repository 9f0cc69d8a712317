"""What mixins do to calls and turns: layers before, around and after, made from the steps in an agent's spec.

`steps.py` reads them; `calling.py` and `asking.py` put the layers together; the others each hold one kind of layer.
What a mixin file may say is `planloop.schemas.fields_mixin`, how settings get into it `planloop.compiler.mixing`.
"""
