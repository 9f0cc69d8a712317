(ns main
  (:require ["fs" :as fs]
            ["http" :as http]
            ["path" :as path]
            [clojure.string :as str]))

(def types {".html" "text/html" ".js" "text/javascript" ".css" "text/css"})

(defn handle [request response]
  (let [asked (.-pathname (js/URL. (.-url request) "http://localhost"))
        file (path/normalize (if (str/ends-with? asked "/") (str asked "index.html") asked))]
    (fs/readFile (path/join "public" file)
                 (fn [error content]
                   (if error
                     (-> response (.writeHead 404) (.end "not found"))
                     (-> response
                         (.writeHead 200 #js {"content-type" (types (path/extname file) "application/octet-stream")})
                         (.end content)))))))

(.listen (http/createServer handle) (js/Number js/process.env.PORT))
