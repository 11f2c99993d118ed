# Debian packages: cmake --build --preset release && cpack --config build/release/CPackConfig.cmake -B build/packages
set(RELAY_MAINTAINER
    "Agent Relay maintainers <maintainers@agent-relay.example>"
    CACHE STRING "Whom the packages name as their maintainer")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${RELAY_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "records the sessions of coding agents as plain files")
set(CPACK_STRIP_FILES ON)
# Staged as `cmake --install` would, so that units and configuration have their final paths.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL programs library development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME agent-relay)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "git, systemd")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
    "Agent Relay takes what coding agents do over a Unix socket, turn by turn,
and answers each event when it survives a loss of power and is in the files.
When an agent stops short, a handoff packet tells the next one where to go on.
.
This package has the recorder agent-relayd and the command agent-relay."
)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_CONTROL_EXTRA
    "${PROJECT_SOURCE_DIR}/packaging/debian/conffiles;${PROJECT_SOURCE_DIR}/packaging/debian/postinst;${PROJECT_SOURCE_DIR}/packaging/debian/prerm;${PROJECT_SOURCE_DIR}/packaging/debian/postrm"
)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libagent-relay${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/packaging/debian/triggers")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS agent-relay)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "With this library an agent written in C++ has its sessions recorded by Agent
Relay: it never waits for the recorder, and no event is lost or recorded twice
when the recorder is restarted."
)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libagent-relay-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# shlibdeps has nothing to look at here.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "Header, CMake and pkg-config files, and an example of the library with which
an agent written in C++ has its sessions recorded by Agent Relay."
)

string(TIMESTAMP RELAY_CHANGELOG_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
# What Debian wants of packages and `cmake --install` does not do.
configure_file(cmake/PackageFinish.cmake.in PackageFinish.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_BINARY_DIR}/PackageFinish.cmake")
# Read by cpack itself, when the version may have been given on its command line.
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/PackageVersions.cmake")
include(CPack)
