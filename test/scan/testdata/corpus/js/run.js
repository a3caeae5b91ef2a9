const { exec } = require('child_process');
const fs = require('fs');

function list(name) {
  exec(`ls ${name}`); // eslint-disable-line
}

function read(name) {
  return fs.readFileSync(name);
}

list(process.argv[2]);
eval('"😀" + ' + process.argv[3]); eval(read);
