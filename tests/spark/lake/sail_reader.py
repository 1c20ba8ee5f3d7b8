"""A process of `.venv-sail` that prints a lake table, as Sail reads it, as an Arrow stream.

`sail_reader.py FORMAT LOCATION [OPTION=VALUE …]`
"""

import os
import sys
import traceback

import pyarrow as pa
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession


def main() -> None:
    kind, location, *options = sys.argv[1:]
    server = SparkConnectServer()
    server.start()
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    chosen = dict(option.split("=", 1) for option in options)
    rows = spark.read.format(kind).options(**chosen).load(location).toArrow()
    with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
        stream.write_table(rows)


status = 1
try:
    main()
    status = 0
except Exception:
    traceback.print_exc()
finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the server's threads do not always end
