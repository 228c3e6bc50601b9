"""Ironic's client of Redfish with a BMC: address, name, password → one line a step."""

import sys
import time

import sushy
import urllib3

urllib3.disable_warnings()
url, user, password = sys.argv[1:]


def until(system, state):
    for _ in range(100):
        system.refresh()
        if system.power_state == state:
            return
        time.sleep(0.05)
    raise SystemExit(f"not {state}")


for make in (sushy.auth.SessionAuth, sushy.auth.BasicAuth):
    auth = make(user, password)
    root = sushy.Sushy(url, verify=False, auth=auth)
    [system] = root.get_system_collection().get_members()
    print("resets", *sorted(one.value for one in system.get_allowed_reset_system_values()))
    system.set_system_boot_options(
        target=sushy.BootSource.PXE,
        enabled=sushy.BootSourceOverrideEnabled.ONCE,
        mode=sushy.BootSourceOverrideMode.UEFI,
    )
    system.refresh()
    boot = system.boot
    print("boot", boot["target"].value, boot["enabled"].value, boot["mode"].value)
    system.reset_system(sushy.ResetType.ON)
    until(system, sushy.PowerState.ON)
    print("on", system.boot["enabled"].value)
    system.set_indicator_led(sushy.IndicatorLED.BLINKING)
    system.refresh()
    print("lamp", system.indicator_led.value)
    print("cards", *[one.mac_address for one in system.ethernet_interfaces.get_members()])
    system.reset_system(sushy.ResetType.FORCE_OFF)
    until(system, sushy.PowerState.OFF)
    print("off")
    if hasattr(auth, "close"):
        auth.close()
