"""Steps of MuJoCo MJX."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
from mujoco import mjx

from .program import Program, floats

ROD = '<geom type="capsule" size=".05" fromto="0 0 0 0 0 -1"/>'
HINGE = '<joint name="{}" type="hinge" axis="0 1 0" damping="0.1"/>'
PENDULUM = f"""<mujoco><option timestep="0.01"/><worldbody>
  <body>{HINGE.format("a")}{ROD}</body>
</worldbody><actuator><motor joint="a"/></actuator></mujoco>"""
DOUBLE = f"""<mujoco><option timestep="0.01" integrator="RK4"/><worldbody>
  <body>{HINGE.format("a")}{ROD}<body pos="0 0 -1">{HINGE.format("b")}{ROD}</body></body>
</worldbody><actuator><motor joint="a"/><motor joint="b" gear="2"/></actuator></mujoco>"""
CART = f"""<mujoco><option timestep="0.01" integrator="implicitfast"/><worldbody>
  <body><joint name="s" type="slide" axis="1 0 0" limited="true" range="-2 2"/>
    <geom type="box" size=".2 .1 .1"/><body>{HINGE.format("a")}{ROD}</body></body>
</worldbody><actuator><motor joint="s" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""
BALL = """<mujoco><option timestep="0.005" iterations="4" ls_iterations="4"/><worldbody>
  <geom type="plane" size="5 5 .1"/>
  <body pos="0 0 .11"><freejoint/><geom type="sphere" size=".1"/></body>
</worldbody></mujoco>"""


def step(xml: str) -> Any:
    def build() -> Any:
        model = mujoco.MjModel.from_xml_string(xml)
        placed = mjx.put_model(model)

        def fn(qpos: Any, qvel: Any, ctrl: Any) -> Any:
            data = mjx.make_data(placed).replace(qpos=qpos, qvel=qvel, ctrl=ctrl)
            data = mjx.step(placed, data)
            return data.qpos, data.qvel

        start = np.asarray(mujoco.MjData(model).qpos, np.float32) + 0.01 * floats(model.nq)
        return fn, (start, 0.1 * floats(model.nv, seed=1), 0.1 * floats(model.nu, seed=2))

    return build


def kinematics() -> Any:
    model = mujoco.MjModel.from_xml_string(DOUBLE)
    placed = mjx.put_model(model)

    def fn(qpos: Any) -> Any:
        data = mjx.kinematics(placed, mjx.make_data(placed).replace(qpos=qpos))
        return data.xpos, data.xquat

    return fn, (floats(model.nq),)


PROGRAMS = [
    Program("a step of a pendulum", step(PENDULUM), 1e-4),
    Program("a step of a double pendulum, Runge-Kutta", step(DOUBLE), 1e-4),
    Program("a step of a cart with a pole, implicit", step(CART), 1e-4),
    Program("a step of a ball on a plane, with contacts", step(BALL), 1e-4),
    Program("`kinematics` of a double pendulum", kinematics),
]
