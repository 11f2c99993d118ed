# Target relay_re2. Newer releases of RE2 bring a CMake package, which also knows their Abseil; Debian 12's has pkg-config alone.
find_package(re2 CONFIG QUIET)
if(TARGET re2::re2)
  add_library(relay_re2 ALIAS re2::re2)
else()
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(RELAY_RE2 REQUIRED IMPORTED_TARGET GLOBAL re2)
  add_library(relay_re2 ALIAS PkgConfig::RELAY_RE2)
endif()
