"""Spark's settings in a properties file, with any characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.errors import InvalidInput
from holdfast.spark.session.properties import write_properties


def read_back(spark: SparkSession, file: Path, settings: dict[str, str]) -> dict[str, str]:
    """Write settings to a file, and return what Spark reads from it."""
    write_properties(file, settings)
    jvm = spark._jvm
    assert jvm is not None
    read = jvm.org.apache.spark.util.Utils.getPropertiesFromFile(str(file))
    found = {}
    each = read.iterator()
    while each.hasNext():
        pair = each.next()
        found[pair._1()] = pair._2()
    return found


def test_a_value_cannot_inject_another_setting(classic_spark: SparkSession, tmp_path: Path) -> None:
    settings = {
        f"spark.{number}": f"x{text}spark.evil 1"
        for number, text in enumerate(["\r", "\n", "\r\n", "\f", "\\\r", "\\", " ", "\u2028", "\t"])
    }

    assert read_back(classic_spark, tmp_path / "spark.properties", settings) == settings


def test_a_value_may_begin_like_a_separator(classic_spark: SparkSession, tmp_path: Path) -> None:
    settings = {"spark.path": ":/opt/jars/*", "spark.options": "=x =y", "spark.none": ""}

    assert read_back(classic_spark, tmp_path / "spark.properties", settings) == settings


@pytest.mark.parametrize("name", ["spark.a b", "spark.a\rspark.b", "spark.a=b", "spark.a:b", ""])
def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="not the name of a Spark setting"):
        write_properties(tmp_path / "spark.properties", {name: "x"})
