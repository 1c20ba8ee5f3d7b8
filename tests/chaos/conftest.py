import uuid
import pytest, sqlalchemy as sa
from holdfast.stores.sql import schema
def pytest_addoption(parser): parser.addoption("--rounds", type=int, default=3)
@pytest.fixture(params=["sqlite","postgresql","mariadb"])
def database_url(request, tmp_path):
    n="h"+uuid.uuid4().hex[:8]
    if request.param=="sqlite": yield f"sqlite:///{tmp_path/'store.db'}"; return
    base = {"postgresql":"postgresql+psycopg://postgres:@/postgres?host=/tmp/devpg","mariadb":"mysql+pymysql://root@localhost/mysql?unix_socket=/tmp/devmaria/s.sock"}[request.param]
    e=sa.create_engine(base, isolation_level="AUTOCOMMIT")
    with e.connect() as c: c.exec_driver_sql(f"CREATE DATABASE {n}")
    url=sa.make_url(base).set(database=n)
    url=url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
    schema.migrate(url)
    yield url
    with e.connect() as c: c.exec_driver_sql(f"DROP DATABASE {n}" + (" WITH (FORCE)" if request.param=="postgresql" else ""))
    e.dispose()
@pytest.fixture
def rounds(request): return request.config.getoption("--rounds")
