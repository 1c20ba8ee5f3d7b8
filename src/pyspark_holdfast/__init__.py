"""Where Spark looks for data sources by itself: packages named `pyspark_…` with a DefaultSource."""

from holdfast.spark.source.registration import discovered

DefaultSource = discovered()
