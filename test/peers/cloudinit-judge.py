# Asks the real cloud-init of this machine's Debian. Reads requests from stdin, one JSON object a line, answers likewise:
#   {"version": true}            -> its version
#   {"userData": TEXT}           -> faults of the schema, and what its YAML reader makes of the text
#   {"cmdline": TEXT}            -> what NoCloud and the network code read from that kernel command line
#   {"seed": URL}                -> the documents fetched as NoCloud fetches them
#   {"network": CONFIG}          -> the files that its networkd renderer writes, by path
import inspect
import json
import os
import sys
import tempfile

import yaml
from cloudinit import util, version
from cloudinit.config import schema
from cloudinit.net import cmdline as net_cmdline
from cloudinit.net import network_state, networkd
from cloudinit.sources import DataSourceNoCloud as nocloud


def user_data(text):
    config = yaml.safe_load(text)
    faults = []
    try:
        options = {"strict": True}
        if "log_deprecations" in inspect.signature(schema.validate_cloudconfig_schema).parameters:
            options["log_deprecations"] = False
        schema.validate_cloudconfig_schema(config, schema.get_schema(), **options)
    except schema.SchemaValidationError as error:
        faults = [str(error)]
    return {"faults": faults, "config": config}


def command_line(text):
    found = {}
    nocloud.load_cmdline_data(found, text)
    return {"seed": found, "network": net_cmdline.read_kernel_cmdline_config(text)}


def seed(url):
    got = util.read_seeded(url, timeout=5)
    return {"documents": len(got), "metaData": got[0], "userData": got[1].decode(), "network": got[3] if len(got) > 3 else None}


def network(config):
    state = network_state.parse_net_config_data(config)
    with tempfile.TemporaryDirectory() as root:
        options = {"network_conf_dir": "/etc/systemd/network/", "resolv_conf_fn": "/etc/systemd/resolved.conf"}
        networkd.Renderer(options).render_network_state(state, target=root)
        files = {}
        for directory, _, names in os.walk(root):
            for name in names:
                path = os.path.join(directory, name)
                files[os.path.relpath(path, root)] = open(path).read()
        return files


ANSWERS = {
    "version": lambda _: version.version_string(),
    "userData": user_data,
    "cmdline": command_line,
    "seed": seed,
    "network": network,
}
for line in sys.stdin:
    ((question, value),) = json.loads(line).items()
    print(json.dumps(ANSWERS[question](value)), flush=True)
